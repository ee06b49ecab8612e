// Package file has functions for names and errors of files that the drivers share.
package file
