// Package pciid has the ids of PCI vendors and products as they stand in configurations, and
// the names of vendors.
package pciid
