"""Known faults, put into the device's own results: does the gate fail when it should, and pass when it should?"""
