// Package file has what the drivers need of names and errors of files.
package file
