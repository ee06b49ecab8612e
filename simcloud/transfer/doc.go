// Package transfer makes a simulated cloud of what a real one lists of its accelerators,
// with other names and ids if asked to.
//
// A [Listing] is what Placement and Cyborg answer to GET requests. What it tells is taken
// exactly; what no API shows is marked as unknown, see [Import]. The package reads no cloud
// itself; the command cysim import does.
//
//	listing, err := transfer.ParseListing(data)
//	listing, err = listing.Anonymize(transfer.Anonymization{Names: true, IDs: true})
//	cloud, err := transfer.Import(ctx, listing)
package transfer
