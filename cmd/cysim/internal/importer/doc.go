// Package importer is the command import of cysim: it reads the data of Placement and Cyborg in a
// real cloud, with read-only requests, and writes a state from it.
package importer
