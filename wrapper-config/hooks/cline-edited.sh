#!/bin/sh
exec {{hook}} cline edited
