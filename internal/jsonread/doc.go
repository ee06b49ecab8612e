// Package jsonread reads selected parts of a JSON document in one pass, without the maps that
// encoding/json would make of the whole document.
package jsonread
