package main

func sdkMain() {}
