package ceiling

import (
	"net"
	"net/http"
	"sync"
	"time"
)

// perConnection is the maximum memory of a connection, in bytes: buffers, headers of 64 KiB, and TLS state.
const perConnection = 128 << 10

// connections bounds the number of connections of a server, streams of events included.
type connections struct {
	mu      sync.Mutex
	free    *sync.Cond
	open    int
	most    int
	waiting bool                        // for a connection to end
	silent  map[net.Conn]http.ConnState // those without a request, new or idle
	closed  bool
}

// firstRequest is how long a new connection may still send a request when the listener has closed. A browser opens
// connections that it may never use, and a client that was faster on another one has no use for its second.
const firstRequest = 200 * time.Millisecond

// Listen bounds the connections of a server on a listener. At the limit new connections wait, and
// connections without a request are closed for them. When the listener is closed, connections
// without a request are closed, too.
func (c *Ceiling) Listen(listener net.Listener, server *http.Server) net.Listener {
	all := &connections{most: int(c.streamBytes() / perConnection), silent: make(map[net.Conn]http.ConnState)}
	all.free = sync.NewCond(&all.mu)
	server.ConnState = all.follow
	return &bounded{listener, all}
}

// follow knows the connections without a request.
func (a *connections) follow(conn net.Conn, state http.ConnState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if state != http.StateNew && state != http.StateIdle {
		delete(a.silent, conn)
		return
	}
	a.silent[conn] = state
	if a.waiting {
		a.closeIdle()
	}
}

// closeIdle closes a connection between two requests, if there is one. With TLS that takes a while.
func (a *connections) closeIdle() {
	for conn, state := range a.silent {
		if state == http.StateIdle {
			delete(a.silent, conn)
			a.waiting = false
			go conn.Close()
			return
		}
	}
}

// closeNew closes the connections that have sent no request yet.
func (a *connections) closeNew() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for conn, state := range a.silent {
		if state == http.StateNew {
			go conn.Close()
		}
	}
}

// begin waits until there may be another connection.
func (a *connections) begin() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.open >= a.most && !a.closed {
		a.waiting = true
		a.closeIdle()
		a.free.Wait()
	}
	a.waiting = false
	if a.closed {
		return net.ErrClosed
	}
	a.open++
	return nil
}

func (a *connections) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open--
	a.free.Signal()
}

// bounded is a listener with a bound.
type bounded struct {
	net.Listener
	all *connections
}

// Accept implements net.Listener.
func (l *bounded) Accept() (net.Conn, error) {
	if err := l.all.begin(); err != nil {
		return nil, err
	}
	conn, err := l.Listener.Accept()
	if err != nil {
		l.all.end()
		return nil, err
	}
	return &counted{Conn: conn, end: sync.OnceFunc(l.all.end)}, nil
}

// Close implements net.Listener.
func (l *bounded) Close() error {
	l.all.mu.Lock()
	l.all.closed = true
	l.all.free.Broadcast()
	l.all.mu.Unlock()
	time.AfterFunc(firstRequest, l.all.closeNew)
	return l.Listener.Close()
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	end func()
}

// Close implements net.Conn.
func (c *counted) Close() error {
	defer c.end()
	return c.Conn.Close()
}

// CloseWrite lets the server end a connection whose client still sends, so that the client can read the answer.
func (c *counted) CloseWrite() error {
	if tcp, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return tcp.CloseWrite()
	}
	return nil
}
