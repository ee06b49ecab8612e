package journal

import (
	"context"
	"errors"
	"time"
)

// Errors of a store. A store may return other errors, for example for a full disk or a server that does not respond.
var (
	// ErrLost is matched by an error of a [Journal] whose right has ended. The call had no effect.
	ErrLost = errors.New("the right to the journal has ended")
	// ErrClosed is matched by the errors of a store that was closed, and of its journals. The call had no effect.
	ErrClosed = errors.New("the store is closed")
	// ErrInUse is matched by the error of [Open] about a file that another process has open.
	ErrInUse = errors.New("another process has it open")
	// ErrDamaged is matched by the error of [Open] about a file that is not as it was written, or is no journal
	// file. The file is not changed. It is also matched by the errors of a file that cannot be read after it was
	// opened, for example because another program truncated it.
	ErrDamaged = errors.New("not a journal file, or damaged")
)

// Store keeps the journals of operations in progress, one for each instance. Its methods may be called concurrently.
//
// The name of an instance is a UTF-8 string of 1 to 255 bytes without the byte 0, for example a UUID. Names are
// compared byte by byte.
type Store interface {
	// Lock gives the caller the only right to the journal of an instance, which need not exist. It waits while
	// another caller has the right, in this process or another one, until ctx ends; the error then matches the
	// error of ctx. After another error a right may exist until it runs out by itself, see [Journal.Until].
	Lock(ctx context.Context, instance string) (Journal, error)
	// Unfinished returns, sorted, the instances whose journals have records and to which no caller has the
	// right now.
	Unfinished(ctx context.Context) ([]string, error)
}

// Journal is the journal of one instance, and the right to it. Until and Renew may be called at any time, the other
// methods from one goroutine at a time.
type Journal interface {
	// Records returns the records that [Store.Lock] found, in the order in which they were appended. They must
	// not be modified.
	Records() [][]byte
	// Abandoned returns when the right of an earlier holder ended without a Release: its process was killed, or it
	// lost its lease. Requests that the holder sent until then may still be in progress. It is zero if this has not
	// happened since the journal was last empty. A store that does not know the time returns a later one: the file
	// store returns when the file was opened.
	Abandoned() time.Time
	// Append adds a record, of up to 1 MiB in any store. Once it has returned nil, the record survives the end
	// of the process, except in a store in memory. After an error it is unknown whether the record was added,
	// unless the error matches [ErrLost] or [ErrClosed]. The record is copied.
	Append(ctx context.Context, record []byte) error
	// Clear removes all records. Its errors are those that Append returns.
	Clear(ctx context.Context) error
	// Until returns when the right ends if it is not renewed, by the clock of this process and not later than
	// for the store. It is zero if the right lasts until Release or the end of the process. The right may end
	// earlier; Append, Clear and Renew report that with ErrLost.
	Until() time.Time
	// Renew extends the right. A store does not renew rights by itself, so that a holder that hangs loses its right.
	// The error matches [ErrLost] if the right has ended.
	Renew(ctx context.Context) error
	// Release ends the right. The records are kept. It returns soon: if the store does not respond, the right expires
	// by itself.
	Release()
}
