package engine

// located opens a cluster that exists, with its nodes where they are now: what DHCP has moved is told and written down. Where their
// hypervisors cannot be asked, or take their time, the record stands.
func (e *Engine) located(ctx context.Context, verb, name string, settings config.Settings) (*session, error) {
	s, err := a.recorded(verb, name, settings)
	if err != nil || s.connect(ctx) != nil {
		return s, err
	}
	if fleet, err := s.fleet(); err == nil {
		lifecycle.Follow(ctx, s.looking(fleet), lifecycle.FollowTime)
	}
	return s, nil
}
