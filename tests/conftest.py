"""Loads the profile of hypothesis before any test module asks for one."""

import properties as properties
