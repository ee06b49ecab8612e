//go:build clients || nova || oracle

package main

import (
	"math/rand/v2"
	"net"
	"strconv"
	"sync/atomic"
	"testing"
)

var nextPort atomic.Int64

func init() { nextPort.Store(20000 + rand.Int64N(10000)) }

// freePorts returns the first of n consecutive free ports. They are below 32768: the kernel
// assigns ephemeral ports above it, so no other program gets these in the meantime.
func freePorts(t *testing.T, n int) string {
	t.Helper()
	for range 1000 {
		first := int(nextPort.Add(int64(n))) - n
		if allFree(first, n) {
			return strconv.Itoa(first)
		}
	}
	t.Fatal("no free port")
	return ""
}

func allFree(first, n int) bool {
	for port := first; port < first+n; port++ {
		listener, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return false
		}
		_ = listener.Close()
	}
	return true
}
