// Package command runs the commands of cysim: it parses their flags, reports their errors
// with the exit status that documentation promises, reads and writes their files, and
// logs in to real clouds.
package command
