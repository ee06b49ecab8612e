// Package choose decides which allocation candidate a spawn tries next: the next candidate on the current host, else
// the first one on the next host, and whether, and with which limit, to query Placement again. It sends no requests
// and has no clock.
//
// The order follows nova/conductor/manager.py and nova/scheduler/manager.py, with three differences: a host has more
// than one candidate, a refused claim rules out the candidates that would also be refused, and after a device that
// could not be bound another device on the same host is tried.
package choose
