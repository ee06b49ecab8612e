//go:build drill

package main

// kills is how often the process is killed.
const kills = 100
