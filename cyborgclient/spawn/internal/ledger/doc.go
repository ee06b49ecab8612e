// Package ledger records the changes that an operation on an instance makes in Cyborg, in Placement and on the host:
// each effect before its request is sent, and its removal. It alone decides what a response proves, and removes
// effects in the order in which they hold each other.
//
// The caller passes the function that sends a request to [Journal.Do], [Journal.Claim], [Journal.Remove] and
// [Journal.Release], and an [Undoer] for each kind of effect.
package ledger
