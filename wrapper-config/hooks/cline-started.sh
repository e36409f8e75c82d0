#!/bin/sh
exec {{hook}} cline started
