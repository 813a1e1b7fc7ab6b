package engine

// gathering is the directory that is gathered into. One that the user names is new or empty: secrets are taken out of every file
// of it, which must not be somebody's key or settings.
func (s *session) gathering(to string) (state.Run, error) {
	if to == "" {
		run, err := s.store.NewGathering(s.name, s.verb, s.started)
		if err != nil {
			return run, Error{ExitConfig, err}
		}
		return run, nil
	}
	dir, err := filepath.Abs(to)
	if err != nil {
		return state.Run{}, usage(fmt.Errorf("--to: %w", err))
	}
	entries, err := os.ReadDir(dir)
	switch {
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return state.Run{}, usage(fmt.Errorf("--to: %w", err))
	case len(entries) > 0:
		return state.Run{}, usage(progress.WithHint(fmt.Errorf("--to: %s is not empty", dir), "name a directory that is new or empty"))
	}
	return state.Run{Dir: dir}, nil
}
