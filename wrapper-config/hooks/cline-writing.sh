#!/bin/sh
exec {{hook}} cline writing
