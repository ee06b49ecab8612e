// Package importer is the command import of cysim: it reads what a real cloud lists of
// Placement and Cyborg, with requests that change nothing, and writes a state of it.
package importer
