// Package sim declares the types that all simulators share. It holds no behaviour of a
// service and imports the standard library only.
package sim
