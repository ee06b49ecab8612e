// Package cyborgclient is a client of OpenStack Cyborg's v2 API: device
// profiles, accelerator requests (ARQs), devices, deployables and attributes.
//
//	cyborg, err := cyborgclient.NewFromCloud(ctx, "prod",
//		cyborgclient.WithServiceToken(func(context.Context) (string, error) {
//			return service.Token(), nil // a *gophercloud.ProviderClient of a user with the service role
//		}))
//	if err != nil {
//		return err
//	}
//	arqs, err := cyborg.CreateARQs(ctx, cyborgclient.CreateARQsOpts{DeviceProfileName: "gpu"})
//	switch {
//	case errors.Is(err, cyborgclient.ErrNotFound): // no such profile
//	case errors.Is(err, cyborgclient.ErrReplyLost): // ARQs may exist that nobody knows of
//	}
//
// Each method makes one request, in the lowest microversion that suffices
// (always sent, 2.0 included), and returns typed values or an error that
// errors.Is compares with the sentinels of this package. An answer of failure
// is an *APIError with the server's own message, taken out of the two layers
// of JSON that Cyborg puts around it. GET and DELETE are repeated when a
// gateway or connection fails; POST and PATCH never are (see RetryOpts).
//
// A DELETE of one thing whose first attempt may have been carried out, and
// whose repetition is answered 404, has succeeded: the thing is gone, and it
// cannot be told whether this call or another deleted it. A 404 to the first
// attempt is ErrNotFound, except where a method says otherwise.
//
// # Observing
//
// WithObserver and Observe tell about calls, WithLogger about attempts. For
// traces, wrap the transport; any http.RoundTripper will do:
//
//	cyborgclient.WithTransport(otelhttp.NewTransport(http.DefaultTransport))
//
// # What it does not do
//
// It does not decide anything: which ARQ goes to which device is the business
// of package matching, and the order of calls, waiting and cleaning up that of
// package spawn. It follows no links and no pages (Cyborg has none), does not
// check what the groups of a device profile mean, and has no interface for
// mocking: a simulated Cyborg is the mock.
//
// # Upstream
//
// It follows, in openstack/cyborg of the 2026.2 development line,
// cyborg/api/controllers/v2 (arqs.py, device_profiles.py, devices.py,
// deployables.py, attributes.py, versions.py), cyborg/api/middleware/parsable_error.py
// and cyborg/common/exception.py; in openstack/nova, nova/accelerator/cyborg.py.
// Releases since Zed are understood.
package cyborgclient
