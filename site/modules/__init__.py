"""A folder for each module of the course (see press.modules), and what their files are made of."""
