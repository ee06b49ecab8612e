package cyborgclient

import "time"

// RetryOpts configures retries. Only GET, HEAD and DELETE are retried: after a
// failed connection, and on 408, 429, 502, 503 and 504.
// POST and PATCH are never retried: a second create makes a second set of ARQs,
// and a second bind meets a state that the first one changed.
//
// The wait doubles from WaitMin up to WaitMax, without jitter so that a run can
// be repeated. The Retry-After header of a 429 or 503 replaces the wait; one longer
// than RetryAfterMax ends the call with the answer that carried it.
type RetryOpts struct {
	Max           int           // retries after the first attempt; 0 = 3, negative = none
	WaitMin       time.Duration // 0 = 500 ms
	WaitMax       time.Duration // 0 = 5 s
	RetryAfterMax time.Duration // 0 = 30 s
}
