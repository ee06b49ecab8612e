// Package certificate makes the certificates of servers that have none.
package certificate
