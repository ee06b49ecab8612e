// Package bus has the synthetic hardware of hosts: the cards of the default model, and trees of sysfs that
// remember what drivers write.
package bus
