// Package cyborgclient is a typed client for version 2 of the OpenStack Cyborg
// API: device profiles, accelerator requests (ARQs), devices, deployables and
// attributes.
//
//	cyborg, err := cyborgclient.NewFromCloud(ctx, "prod",
//		cyborgclient.WithServiceProvider(service)) // a *gophercloud.ProviderClient of a user with the role service
//	if err != nil {
//		return err
//	}
//	arqs, err := cyborg.CreateARQs(ctx, cyborgclient.CreateARQsOpts{DeviceProfileName: "gpu"})
//	switch {
//	case errors.Is(err, cyborgclient.ErrNotFound): // there is no such profile
//	case errors.Is(err, cyborgclient.ErrReplyLost): // ARQs may exist whose UUIDs are unknown
//	}
//
// Each method makes one request, in the lowest microversion that suffices
// (always sent, 2.0 included), and returns typed values or an error that
// errors.Is compares with the sentinels of this package. An error answer is an
// *APIError with the server's own message, decoded from the two layers of JSON
// that Cyborg wraps around it. GET and DELETE are retried when a gateway or
// connection fails, or a rate limit is hit; POST and PATCH never are (see RetryOpts).
//
// # Releases
//
// The header OpenStack-API-Version is sent as "accelerator 2.N", which Cyborg 10.1 and
// 12.0 to 16.0.1 read as 2.0. When an answer names a lower version than requested, the request is
// repeated as "2.N", and that form is sent from the next call on. GetARQ and GetDeviceProfile
// read the list where only administrators read one. A refusal by policy names the role that the
// default policy of the release requires. CreateARQs without the role member, and reads of
// devices, are refused by Cyborg 14.1, 15.0.1 and 16.0.1; see docs/compat.md.
//
// A DELETE whose first attempt may have been applied, and whose retry is
// answered 404, succeeds: the resource does not exist. A 404 to the first attempt is
// ErrNotFound, except where a method says otherwise.
//
// # Observing
//
// Observe reports calls, WithLogger logs attempts. For traces,
// wrap the transport; any http.RoundTripper works:
//
//	cyborgclient.WithTransport(otelhttp.NewTransport(http.DefaultTransport))
//
// # What it does not do
//
// It makes no decisions: package matching assigns ARQs to devices, and package
// spawn orders the calls, waits and cleans up. It follows no links and no pages
// (Cyborg has none), does not check what the groups of a device profile mean,
// and has no interface for mocking: use a simulated Cyborg.
//
// # Upstream
//
// It follows, in openstack/cyborg of the 2026.2 development line,
// cyborg/api/controllers/v2 (arqs.py, device_profiles.py, devices.py,
// deployables.py, attributes.py, versions.py), cyborg/api/middleware/parsable_error.py
// and cyborg/common/exception.py; in openstack/nova, nova/accelerator/cyborg.py.
// It works with releases since 9.0 (Zed).
package cyborgclient
