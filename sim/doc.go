// Package sim holds the types that all simulated services share: the clock, the check of
// tokens, the peers of a service, the record of requests and what they changed, Nova's
// external events and guests, and the records that a service's state consists of. Control
// is for agents: it registers their guests with a cloud that cysim serve runs.
//
// It imports the standard library only, so that every other package can import it.
package sim
