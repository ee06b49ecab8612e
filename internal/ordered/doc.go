// Package ordered does independent work concurrently and returns the results in order.
package ordered
