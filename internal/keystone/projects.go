package keystone

// HasProject reports whether there is a project of an id.
func (s *Server) HasProject(id string) bool {
	_, ok := s.directory.findProject(projectRef{ID: id})
	return ok && id != ""
}
