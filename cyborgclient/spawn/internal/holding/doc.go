// Package holding decides where an instance is, and which of its ARQs and resources an operation may remove, from a
// snapshot of Cyborg, Placement and the hypervisors.
//
// The caller may know only the host from before a move: an evacuation or an unshelve whose result it does not know.
// The instance then has a guest on another host, and the devices of that guest must not be released. The reverse case
// is a guest from before an evacuation: the instance has left that host, which is back with the old guest and the ARQ
// that Cyborg could not delete.
package holding
