package differential

import (
	"bytes"
	"sync"
)

// Log keeps what a real service logs, for a test that fails. The zero Log is empty.
type Log struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

// Write implements [io.Writer].
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

// Tail is the end of the log, of at most 4,000 bytes.
func (l *Log) Tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	const most = 4000
	data := l.buf.Bytes()
	return string(data[max(0, len(data)-most):])
}
