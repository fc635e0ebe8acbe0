"""Scaling, anchors, graphs and prediction on one PyTorch device."""
