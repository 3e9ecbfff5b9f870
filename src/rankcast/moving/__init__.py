"""`MovingTopK` and `MovingSkyline`: results that follow a moving query [Moving]."""
