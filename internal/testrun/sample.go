//go:build !drill && !race

package testrun

// Whole reports whether tests try all that they list.
const Whole = false
