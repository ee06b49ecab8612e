package fakecyborg

import "github.com/gocyborg/gocyborg/internal/simhttp"

// InputRoutes are the routes with what they read.
func InputRoutes(s *Server) []simhttp.Route { return s.service.Router.Routes() }
