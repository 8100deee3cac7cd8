package console

func (v *visit) me() (*answer, error) { return show("me", v.text("My access"), v.user) }
