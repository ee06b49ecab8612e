// Package transfer makes a simulated cloud from the listings of a real one, optionally with other
// names and ids.
//
// A [Listing] holds the answers of Placement and Cyborg to GET requests. Its values are imported
// exactly. What no API shows is marked as unknown, see [Import]. The package reads no cloud
// itself; the command cysim import does.
//
//	listing, err := transfer.ParseListing(data)
//	listing, err = listing.Anonymize(transfer.Anonymization{Names: true, IDs: true})
//	cloud, err := transfer.Import(ctx, listing)
package transfer
