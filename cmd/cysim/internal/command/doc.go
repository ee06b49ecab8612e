// Package command runs the commands of cysim: it parses their flags, reports their errors
// with the exit status that documentation promises, and reads and writes their files.
package command
