// Package ceiling bounds the memory that others can make a process of cysim take: the requests that clients send, their
// connections, what is made of both, and what servers answer. Its parts are shares of one size, the flag --max-memory.
package ceiling
