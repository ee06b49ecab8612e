// Package control has the commands that use a running server of cysim through its control API, below /_sim/.
package control
