// Package holding judges where an instance is, and what of its ARQs and allocation an operation may take away, from one look at what
// Cyborg, Placement and the hypervisors show of it.
//
// A caller may have the host of before a move: an evacuation or an unshelve whose end it does not know. Its instance then has a guest
// on another host, and that guest's devices must not be released. The reverse is a guest of before an evacuation: the instance has
// left its host, which is back with the old guest and the ARQ that Cyborg could not delete.
package holding
