// Package ceiling bounds the memory that clients and servers can make a process of cysim use: for
// requests, connections, decoded bodies, and answers of servers. Each gets a share of one size,
// the flag --max-memory.
package ceiling
