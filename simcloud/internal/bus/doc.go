// Package bus has the synthetic hardware of hosts: the cards of the default model, and sysfs
// trees that record the writes of drivers.
package bus
