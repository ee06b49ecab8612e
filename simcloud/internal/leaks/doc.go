// Package leaks compares what the services of a cloud hold, and draws what is in use.
package leaks
