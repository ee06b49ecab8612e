// Package choose says which allocation candidate a spawn tries next: the next candidate of the host that it is on, else the first one
// of the next host, and whether, and for how many candidates, Placement is asked again. It sends nothing and has no clock.
//
// The order follows nova/conductor/manager.py and nova/scheduler/manager.py, with three differences: a host has more than one
// candidate, a refused claim rules out the candidates that would be refused as well, and a device that could not be bound is followed
// by another device of the same host.
package choose
