// Package pciid has the ids of PCI vendors and products as written in configurations, and
// the names of vendors.
package pciid
