// Package spelling suggests corrections for misspelt words.
package spelling
