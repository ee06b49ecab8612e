// Package jsonread reads of a JSON document what it is asked for, in one pass and without the maps
// that encoding/json makes of all of it. It writes nothing.
package jsonread
