# sovia
