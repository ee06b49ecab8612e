package fakecyborg

import (
	"slices"
	"strings"
)

// Quirks lists what Config.UpstreamQuirks restores, one sentence each: a defect
// of the real service that is repaired by default.
func Quirks() []string {
	return slices.Clone(strings.Split(strings.TrimSpace(quirkList), "\n"))
}

// quirkList is in the order in which a request meets them.
const quirkList = `
Bad input that upstream forgot to give a status is answered 500 instead of 400, 404 or 409: a profile without name or groups, with a name of 256 characters or a uuid in use; a bad bind_state; a DELETE with neither or both selectors; a bind in a wrong state; malformed PATCH bodies; the deletion of a profile in use; attributes of unknown deployables.
A profile whose groups ask for nothing, for zero or for less is stored; it makes no requests.
A profile with a uuid that is none is stored although it is refused, and from then on profiles cannot be listed.
The classes of device memory (CUSTOM_ACCELERATOR_MEMORY_*) make requests, which nothing can be bound to.
A bind may store an instance or a provider that is no uuid; the request can then not be shown.
A bind to an unknown provider leaves its request BindStarted; the instance is blocked until it is unbound or deleted.
Only the first request's instance, and only what the caller sees, is looked at for requests that the instance has already.
All events of a PATCH name the instance of its first request.
A bind by an administrator makes the request the administrator's; its tenant sees it no more, and deletes nothing when the server goes.
A mediated device that could not be made keeps its attach handle until the request is unbound.
A mediated device that could not be removed is answered 500 with the text 'UnbindFailed', and keeps the requests after it.
A bind in the background that takes longer than bind_timeout goes on, and Nova never hears of it.
accel:bitstream_name, accel:function_name and the class CUSTOM_ACCELERATOR_FPGA mean nothing; a group may name an image in several of these ways.
A function is written to a region every time, also when it is there.
A region whose programming failed is believed to have the bitstream that it had before.
A region is programmed whoever uses it, whatever type of region the image is for, and when it is pre-programmed.
The trait of a function that has a hyphen gets "_-" in its place, which Placement refuses: the request stays BindStarted, and Nova never hears of it.
The program call changes neither bitstream_id nor traits.
Xilinx cards cannot be programmed: their driver is looked up by a name that it does not have.
A device is disabled and enabled through the deployable that has the device's number; max_unit is lost; the status is stored even if Placement refuses.
A driver that fails, or that reports a device without attributes as the one of Huawei's Ascend does, spoils the report of its whole host.
In Zed, a device with a trait of os-traits such as OWNER_CYBORG cannot be reported: the trait is to be created, and Placement refuses.
A change of capacity makes a disabled device available again.
A handle that is no longer reported makes the newest handle of its deployable vanish instead.
Attributes created through the API vanish with the next report.
Mediated devices are not made again when their host restarts.
Only the drivers that upstream gave it report the trait OWNER_CYBORG, and devices that Nova offers, too, are reported.
A profile that requires OWNER_CYBORG is refused: only custom traits may be asked for.
An agent that has not found the provider of its host after three more looks gives up for good.
`
