// Package ledger records what an operation on an instance changes in Cyborg, in Placement and on the host: each effect before
// its request is sent, and its removal, too. It decides what the answers prove, in one place, and takes effects away in the order
// in which they hold each other.
//
// It does not know how a request is sent: the caller passes that to [Journal.Do], [Journal.Claim], [Journal.Remove] and
// [Journal.Release], and an [Undoer] for each kind of effect.
package ledger
